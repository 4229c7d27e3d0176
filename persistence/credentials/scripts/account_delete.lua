-- Deletes an account with its keys and sessions, and frees its email.
-- KEYS[1] account            ARGV[1] account id
-- KEYS[2] accounts           ARGV[2] announcement
-- KEYS[3] email              ARGV[3] now, ms
-- KEYS[4] lock               ARGV[4] prefix of key records
-- KEYS[5] keys of it         ARGV[5] prefix of session records
-- KEYS[6] sessions of it     ARGV[6] prefix of refresh locators
-- KEYS[7] outbox             ARGV[7] how many sessions one call ends at most
-- Returns 1; 0 if there is no such account; -1 if there are more sessions than one
-- call ends. The names made of the prefixes carry the same hash tag as KEYS.
-- removeSession is in shared/session_remove.lua.
if redis.call('ZCARD', KEYS[6]) > tonumber(ARGV[7]) then
  return -1
end
if redis.call('DEL', KEYS[1]) == 0 then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[3], KEYS[4])
local keys = redis.call('HGETALL', KEYS[5])
for i = 1, #keys, 2 do
  if string.sub(keys[i], 1, 3) == 'id:' then
    redis.call('DEL', ARGV[4] .. keys[i + 1])
  end
end
for _, id in ipairs(redis.call('ZRANGE', KEYS[6], 0, -1)) do
  removeSession(ARGV[5] .. id, KEYS[6], id, ARGV[6])
end
redis.call('DEL', KEYS[5])
redis.call('ZADD', KEYS[7], ARGV[3], ARGV[2])
return 1
