-- Announces a node for a while, and lists the live ones.
-- KEYS[1] live nodes, "NODE MODE" by the millisecond until which they are live
-- KEYS[2] assignment of partitions
-- KEYS[3] record of the installation
-- ARGV[1] node   ARGV[2] "assigned", or "alone" if no other node may run
-- ARGV[3] for how long, ms
-- ARGV[4] the node's installation: recorded if Redis has lost the record
-- A live node whose mode is "many" is of a build that knows no assignments.
-- Returns {"1", VERSION, NODES, OWNERS, MEMBER...} with the assignment's fields, empty without one,
-- and the members of KEYS[1] with the node itself, in no order; or
-- {"0", NODE} if the live node NODE and this one may not run at the same time; or {"2", RECORD} if
-- the installation is another one.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local installed = redis.call('HGET', KEYS[3], 'partitions')
if installed and installed ~= ARGV[4] then
  redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many', ARGV[1] .. ' assigned')
  return {'2', installed}
elseif not installed then
  redis.call('HSET', KEYS[3], 'partitions', ARGV[4])
end
local stored = redis.call('HMGET', KEYS[2], 'version', 'nodes', 'owners')
local answer = {'1', stored[1] or '', stored[2] or '', stored[3] or ''}
local function remove()
  redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many', ARGV[1] .. ' assigned')
end
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local node, mode = string.match(member, '^(%S+) (%S+)$')
  if node and node ~= ARGV[1] then
    if mode == 'alone' or ARGV[2] == 'alone' then
      remove()
      return {'0', node}
    end
    answer[#answer + 1] = member
  end
end
remove()
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1] .. ' ' .. ARGV[2])
answer[#answer + 1] = ARGV[1] .. ' ' .. ARGV[2]
return answer
