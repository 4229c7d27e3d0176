-- Replaces a refresh token by the next one. A token that is not the current one of its
-- session was used before: it ends the session.
-- KEYS[1] refresh locator   ARGV[1] digest of the token presented
-- KEYS[2] session           ARGV[2] digest of the next token
-- KEYS[3] sessions of it    ARGV[3] now, ms
-- KEYS[4] outbox            ARGV[4] expiry of the next token, ms
--                           ARGV[5] keep until, ms
--                           ARGV[6] session id
--                           ARGV[7] announcement of its end
-- Returns 1 if the next token is the current one, also after the same call before;
-- 0 if the session has ended or the token expired; -1 if this call ends the session.
if redis.call('GET', KEYS[1]) ~= ARGV[6] then
  return 0
end
local current, expiry, ends = unpack(redis.call('HMGET', KEYS[2], 'refresh', 'refresh_until', 'ends'))
if not current then
  return 0
end
if current == ARGV[2] then
  return 1
end
if current ~= ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[6])
  redis.call('ZADD', KEYS[4], ARGV[3], ARGV[7])
  return -1
end
local now = tonumber(ARGV[3])
if tonumber(expiry) <= now or tonumber(ends) <= now then
  return 0
end
redis.call('HSET', KEYS[2], 'refresh', ARGV[2], 'refresh_until', ARGV[4], 'keep_until', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
redis.call('PEXPIREAT', KEYS[2], ARGV[5])
redis.call('ZADD', KEYS[3], ARGV[5], ARGV[6])
return 1
