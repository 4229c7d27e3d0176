-- Takes, renews or gives up the lease of the market's feeder.
-- KEYS[1] lease   ARGV[1] node
-- KEYS[2] epoch   ARGV[2] milliseconds that the lease lasts; 0 gives it up
--                 ARGV[3] the epoch to renew or give up; 0 takes the lease
-- Returns the epoch, or 0 if another node is the feeder.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
local epoch = tonumber(redis.call('GET', KEYS[2]) or '0')
if ARGV[3] == '0' then
  -- Not only the next one: a Redis that lost its newest writes would give it twice.
  local t = redis.call('TIME')
  epoch = math.max(epoch + 1, t[1] * 1000 + math.floor(t[2] / 1000))
  redis.call('SET', KEYS[2], string.format('%.0f', epoch))
elseif epoch ~= tonumber(ARGV[3]) then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return epoch
