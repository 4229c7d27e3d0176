-- Takes jobs out of a partition's queue and marks them as running.
--
-- KEYS[1] queue
-- ARGV[1] consumer: the node's id
-- ARGV[2] limit of jobs
-- ARGV[3] prefix of the keys of jobs
-- ARGV[4] prefix of the keys of indexes
-- ARGV[5] "new" takes new jobs. "left" takes abandoned jobs: of a former process of this
--         node, of a reply that this node did not get, and of other nodes.
-- For "left" only:
-- ARGV[6] idle time after which an entry is taken from a live node, in ms
-- ARGV[7] idle time after which it is taken from another node, in ms; "-" if the live
--         nodes are not known
-- ARGV[8] how many entries this process holds
-- ARGV[9..] those entries, and then the live nodes
--
-- Returns how many entries were read, and {entry, job id, attempt, started at in ms,
-- request} for each taken job. Removes entries without a queued or running job from the
-- queue.
--
-- The keys of the jobs are not among KEYS, because only the queue names them. They are in
-- its slot.
local call = redis.call
local queue, me, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])
local taken, read, now = {0}, 0, nil

-- start takes the entry's job.
local function start(entry, fields)
  read = read + 1
  local job, account = fields[2], fields[4]
  local key = ARGV[3] .. job
  local state = call('HGET', key, 's')
  local status, attempt = string.match(state or '', '^(%a+) (%d+)$')
  if status ~= 'queued' and status ~= 'running' then
    call('XACK', queue, 'jobs', entry)
    call('XDEL', queue, entry)
    return
  end
  attempt = tonumber(attempt) + 1
  if not now then
    local t = call('TIME')
    now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
  end
  call('HSET', key, 's', 'running ' .. attempt)
  call('HSETNX', key, 't', now)
  if status == 'queued' then
    local index = ARGV[4] .. account
    local created = call('ZSCORE', index .. ':queued', job)
    if created then
      call('ZREM', index .. ':queued', job)
      call('ZADD', index .. ':running', created, job)
    end
  end
  local record = call('HMGET', key, 't', 'q')
  taken[#taken + 1] = {entry, job, attempt, record[1], record[2] or ''}
end

-- takeOver takes entries of a consumer that have been idle for a time, except the kept
-- ones, which are at most the given number.
local function takeOver(consumer, idle, kept, number)
  local left = limit - read
  if left <= 0 then
    return
  end
  for _, p in ipairs(call('XPENDING', queue, 'jobs', 'IDLE', idle, '-', '+', left + number, consumer)) do
    if not kept[p[1]] and read < limit then
      local claimed = call('XCLAIM', queue, 'jobs', me, idle, p[1])
      if claimed[1] then
        start(claimed[1][1], claimed[1][2])
      end
    end
  end
end

-- finish returns the result of the script.
local function finish()
  taken[1] = read
  return taken
end

-- ensureGroup makes the group if it does not exist.
local function ensureGroup()
  redis.pcall('XGROUP', 'CREATE', queue, 'jobs', '0', 'MKSTREAM')
end

if ARGV[5] == 'new' then
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
      start(e[1], e[2])
    end
  end
  return finish()
end

ensureGroup()
local number = tonumber(ARGV[8])
local held = {}
for i = 9, 8 + number do
  held[ARGV[i]] = true
end
takeOver(me, 0, held, number)

if ARGV[7] ~= '-' then
  local live = {[me] = true}
  for i = 9 + number, #ARGV do
    live[ARGV[i]] = true
  end
  for _, c in ipairs(call('XINFO', 'CONSUMERS', queue, 'jobs')) do
    local info = {}
    for i = 1, #c, 2 do
      info[c[i]] = c[i + 1]
    end
    if not live[info.name] then
      if info.pending > 0 then
        takeOver(info.name, tonumber(ARGV[7]), {}, 0)
      elseif info.idle > 86400000 then
        call('XGROUP', 'DELCONSUMER', queue, 'jobs', info.name)
      end
    end
  end
end
local left = limit - read
if left > 0 then
  local r = call('XAUTOCLAIM', queue, 'jobs', me, ARGV[6], '0', 'COUNT', left)
  for _, e in ipairs(r[2]) do
    if not held[e[1]] then -- this process is slow with the others
      start(e[1], e[2])
    end
  end
end
return finish()
