-- Revokes an API key and frees its name.
-- KEYS[1] keys of the account   ARGV[1] key id
-- KEYS[2] outbox                ARGV[2] announcement
--                               ARGV[3] now, ms
--                               ARGV[4] prefix of key records
-- Returns 1, or 0 if the account has no such key. The name made of the prefix
-- carries the same hash tag as KEYS.
local digest = redis.call('HGET', KEYS[1], 'id:' .. ARGV[1])
if not digest then
  return 0
end
local record = ARGV[4] .. digest
local name = redis.call('HGET', record, 'name')
redis.call('DEL', record)
redis.call('HDEL', KEYS[1], 'id:' .. ARGV[1], 'name:' .. (name or ''))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
return 1
