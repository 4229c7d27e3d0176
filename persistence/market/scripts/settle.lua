-- Ends the wait for an asset.
-- KEYS[1] epoch      ARGV[1] the feeder's epoch
-- KEYS[2] wanted     ARGV[2] symbol
-- KEYS[3] refusal    ARGV[3] why it has no record; empty if it has one
-- KEYS[4] kept for   ARGV[4] how long ARGV[3] is kept, in ms
-- Returns 1, or 0, with nothing stored, if another feeder took over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local account = redis.call('HGET', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[2])
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
  return 1
end
redis.call('DEL', KEYS[3])
if account and account ~= '' then
  redis.call('HSETNX', KEYS[4], ARGV[2], account)
end
return 1
