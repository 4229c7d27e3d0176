-- Revokes API keys of one kind of an account and frees their names.
-- KEYS[1] keys of their kind      ARGV[1] now, ms
-- KEYS[2] ids of readers          ARGV[2], [3] announcement before and after the key id
-- KEYS[3] outbox                  ARGV[4...] id and digest of each key
-- KEYS[4...] record of each key
-- Returns the ids of those that it has revoked: the account has no others of these.
local revoked = {}
for i = 4, #KEYS do
  local id, digest = ARGV[2 * i - 4], ARGV[2 * i - 3]
  redis.call('ZREM', KEYS[2], id)
  if redis.call('HGET', KEYS[1], 'id:' .. id) == digest then
    local name = redis.call('HGET', KEYS[i], 'name')
    redis.call('DEL', KEYS[i])
    redis.call('HDEL', KEYS[1], 'id:' .. id, 'name:' .. (name or ''))
    redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2] .. id .. ARGV[3])
    revoked[#revoked + 1] = id
  end
end
return revoked
