-- Announces a node for a while, and lists the live ones.
-- KEYS[1] live nodes, "NODE MODE" by the millisecond until which they are live
-- ARGV[1] node   ARGV[2] "many", or "alone" if no other node may run
-- ARGV[3] for how long, ms
-- Returns {"1", NODE...} with the node itself, in no order; or
-- {"0", NODE} if the live node NODE and this one may not run at the same time.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local live = {'1'}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local node, mode = string.match(member, '^(%S+) (%S+)$')
  if node and node ~= ARGV[1] then
    if mode == 'alone' or ARGV[2] == 'alone' then
      redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many')
      return {'0', node}
    end
    live[#live + 1] = node
  end
end
redis.call('ZREM', KEYS[1], ARGV[1] .. ' alone', ARGV[1] .. ' many')
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1] .. ' ' .. ARGV[2])
live[#live + 1] = ARGV[1]
return live
