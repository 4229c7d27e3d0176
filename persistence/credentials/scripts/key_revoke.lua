-- Revokes an API key and frees its name.
-- KEYS[1] keys of the account   ARGV[1] key id
-- KEYS[2] outbox                ARGV[2] announcement
-- KEYS[3] key                   ARGV[3] now, ms
--                               ARGV[4] digest of the secret
-- Returns 1; 0 if the account has no such key; -1 if the key has another digest.
local digest = redis.call('HGET', KEYS[1], 'id:' .. ARGV[1])
if not digest then
  return 0
end
if digest ~= ARGV[4] then
  return -1
end
local name = redis.call('HGET', KEYS[3], 'name')
redis.call('DEL', KEYS[3])
redis.call('HDEL', KEYS[1], 'id:' .. ARGV[1], 'name:' .. (name or ''))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
return 1
