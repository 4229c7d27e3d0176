-- Announces a process of a node for a while, and lists the live nodes.
-- KEYS[1] live nodes, "NODE MODE" by the millisecond until which they are live
-- KEYS[2] assignment of partitions
-- KEYS[3] processes: NODE -> "UNTIL NONCE PLACE", a line feed and the traits
-- KEYS[4] record of the installation
-- ARGV[1] node   ARGV[2] "assigned", or "alone" if no other node may run
-- ARGV[3] for how long, ms
-- ARGV[4] nonce of the process
-- ARGV[5] place of its data directory, "-" if unknown
-- ARGV[6] traits: a line "SETTING VALUE VALUE..." for each
-- ARGV[7] the node's installation: recorded if Redis has lost the record
-- ARGV[8] its id, empty if unknown: the same
-- A live node whose mode is "many" is of a build that knows no assignments. One without an entry
-- in KEYS[3] that has the UNTIL of its announcement is of a build that publishes none.
-- Returns {"1", VERSION, NODES, OWNERS, MEMBER...} with the assignment's fields, empty without one,
-- and the members of KEYS[1] with the node itself, in no order; or
-- {"0", WHY, NODE, UNTIL, VALUES} if the live node NODE does not allow it: WHY is "process" if that
-- is another process of the same node, "alone" if one of the two must be the only node, else the
-- setting of which NODE has VALUES; or {"2", RECORD} if the installation is another one.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local match, find, gmatch = string.match, string.find, string.gmatch
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)

local function remove()
  redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many', ARGV[1] .. ' assigned')
end

local installed = redis.call('HMGET', KEYS[4], 'partitions', 'id')
if installed[1] and installed[1] ~= ARGV[7] or installed[2] and ARGV[8] ~= '' and installed[2] ~= ARGV[8] then
  -- A process of the same node may be live in it already.
  if match(redis.call('HGET', KEYS[3], ARGV[1]) or '', '^%d+ (%S+) ') == ARGV[4] then
    remove()
  end
  return {'2', installed[1] or ARGV[7]}
end
if not installed[1] then
  redis.call('HSET', KEYS[4], 'partitions', ARGV[7])
end
if not installed[2] and ARGV[8] ~= '' then
  redis.call('HSET', KEYS[4], 'id', ARGV[8])
end

-- The nonce, place and traits that came with the announcement of a node until a time.
local function published(node, till)
  local entry = redis.call('HGET', KEYS[3], node)
  local at, nonce, place, traits = match(entry or '', '^(%d+) (%S+) (%S+)\n(.*)$')
  if at == till then
    return nonce, place, traits
  end
end

local function share(a, b)
  for value in gmatch(a, '%S+') do
    if find(' ' .. b .. ' ', ' ' .. value .. ' ', 1, true) then
      return true
    end
  end
end

-- The first setting in which traits and others disagree, and its values among the others.
local function misfit(traits, others)
  local theirs = {}
  for setting, values in gmatch(others, '(%S+) ([^\n]*)\n') do
    theirs[setting] = values
  end
  for setting, values in gmatch(traits, '(%S+) ([^\n]*)\n') do
    if theirs[setting] and not share(values, theirs[setting]) then
      return setting, theirs[setting]
    end
  end
end

local known, others = false, {}
local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  local node, mode = match(members[i], '^(%S+) (%S+)$')
  if node == ARGV[1] then
    local nonce, place, traits = published(node, members[i + 1])
    if nonce == ARGV[4] then
      known = traits == ARGV[6]
    elseif not place or place == '-' or place ~= ARGV[5] then
      return {'0', 'process', node, members[i + 1], ''}
    end
  elseif node then
    others[#others + 1] = {node, mode, members[i + 1], members[i]}
  end
end
for _, o in ipairs(others) do
  if o[2] == 'alone' or ARGV[2] == 'alone' then
    remove()
    return {'0', 'alone', o[1], o[3], ''}
  end
  -- Only once: a node that comes later compares itself with this one.
  local _, _, traits = published(o[1], o[3])
  if traits and not known then
    local setting, values = misfit(ARGV[6], traits)
    if setting then
      remove()
      return {'0', setting, o[1], o[3], values}
    end
  end
end
if not known then -- forget those that have ended
  local entries = redis.call('HGETALL', KEYS[3])
  for i = 1, #entries, 2 do
    if tonumber(match(entries[i + 1], '^%d+') or '0') <= now then
      redis.call('HDEL', KEYS[3], entries[i])
    end
  end
end

local member, till = ARGV[1] .. ' ' .. ARGV[2], string.format('%.0f', now + tonumber(ARGV[3]))
remove()
redis.call('ZADD', KEYS[1], till, member)
redis.call('HSET', KEYS[3], ARGV[1], till .. ' ' .. ARGV[4] .. ' ' .. ARGV[5] .. '\n' .. ARGV[6])
local stored = redis.call('HMGET', KEYS[2], 'version', 'nodes', 'owners')
local answer = {'1', stored[1] or '', stored[2] or '', stored[3] or '', member}
for _, o in ipairs(others) do
  answer[#answer + 1] = o[4]
end
return answer
