-- Takes entries out of a partition's queue. Their jobs are started by start.lua.
--
-- KEYS[1] queue
-- ARGV[1] consumer: the node's id
-- ARGV[2] limit of entries
-- ARGV[3] "new" takes new entries. "left" takes abandoned ones: of a former process of this
--         node, of a reply that this node did not get, and of other nodes.
-- For "left" only:
-- ARGV[4] idle time after which an entry is taken from a live node, in ms
-- ARGV[5] idle time after which it is taken from another node, in ms; "-" if the live
--         nodes are not known
-- ARGV[6] how many entries this process holds
-- ARGV[7..] those entries, and then the live nodes
--
-- Returns {entry, job id, account} of each.
local call = redis.call
local queue, me, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])
local taken = {}

-- take adds an entry with its fields.
local function take(e)
  taken[#taken + 1] = {e[1], e[2][2], e[2][4]}
end

-- takeOver takes entries of a consumer that have been idle for a time, except the kept
-- ones, which are at most the given number.
local function takeOver(consumer, idle, kept, number)
  local left = limit - #taken
  if left <= 0 then
    return
  end
  for _, p in ipairs(call('XPENDING', queue, 'jobs', 'IDLE', idle, '-', '+', left + number, consumer)) do
    if not kept[p[1]] and #taken < limit then
      local claimed = call('XCLAIM', queue, 'jobs', me, idle, p[1])
      if claimed[1] then
        take(claimed[1])
      end
    end
  end
end

-- ensureGroup makes the group if it does not exist.
local function ensureGroup()
  redis.pcall('XGROUP', 'CREATE', queue, 'jobs', '0', 'MKSTREAM')
end

if ARGV[3] == 'new' then
  local new = redis.pcall('XREADGROUP', 'GROUP', 'jobs', me, 'COUNT', limit, 'STREAMS', queue, '>')
  if type(new) == 'table' and new.err then
    if not string.find(new.err, 'NOGROUP') then
      return redis.error_reply(new.err)
    end
    ensureGroup()
    new = call('XREADGROUP', 'GROUP', 'jobs', me, 'COUNT', limit, 'STREAMS', queue, '>')
  end
  if new then
    for _, e in ipairs(new[1][2]) do
      take(e)
    end
  end
  return taken
end

ensureGroup()
local number = tonumber(ARGV[6])
local held = {}
for i = 7, 6 + number do
  held[ARGV[i]] = true
end
takeOver(me, 0, held, number)

if ARGV[5] ~= '-' then
  local live = {[me] = true}
  for i = 7 + number, #ARGV do
    live[ARGV[i]] = true
  end
  for _, c in ipairs(call('XINFO', 'CONSUMERS', queue, 'jobs')) do
    local info = {}
    for i = 1, #c, 2 do
      info[c[i]] = c[i + 1]
    end
    if not live[info.name] then
      if info.pending > 0 then
        takeOver(info.name, tonumber(ARGV[5]), {}, 0)
      elseif info.idle > 86400000 then
        call('XGROUP', 'DELCONSUMER', queue, 'jobs', info.name)
      end
    end
  end
end
local left = limit - #taken
if left > 0 then
  local r = call('XAUTOCLAIM', queue, 'jobs', me, ARGV[4], '0', 'COUNT', left)
  for _, e in ipairs(r[2]) do
    if not held[e[1]] then -- this process is slow with the others
      take(e)
    end
  end
end
return taken
