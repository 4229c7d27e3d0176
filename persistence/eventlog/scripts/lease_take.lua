-- Takes a lease unless another node holds it.
-- KEYS[1] holder, "NODE EPOCH"  ARGV[1] node
-- KEYS[2] epoch                 ARGV[2] lease, ms
-- Returns {EPOCH, ""}, or {"0", NODE} if NODE holds the lease. A node that holds it
-- already, from before its restart, gets it under a new epoch like any new owner.
local owner = redis.call('GET', KEYS[1])
if owner then
  local node = string.match(owner, '^%S+')
  if node ~= ARGV[1] then
    return {'0', node}
  end
end
-- Not only the last one plus 1: a Redis that has lost its newest writes in a failover
-- would give the same epoch twice. Its clock has advanced meanwhile.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local epoch = string.format('%.0f', math.max(last + 1, now))
redis.call('SET', KEYS[2], epoch)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. epoch, 'PX', ARGV[2])
return {epoch, ''}
