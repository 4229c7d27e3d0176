-- Begins a session after a right password, unless the email is locked by now.
-- KEYS[1] account           ARGV[1] session id
-- KEYS[2] session           ARGV[2] version of the password that was right
-- KEYS[3] sessions of it    ARGV[3] now, ms
-- KEYS[4] refresh locator   ARGV[4] keep until, ms
-- KEYS[5] lock              ARGV[5...] fields and values of the record
-- Returns 0; -1 if the account is gone or has another password; else until when
-- the email is locked, in ms.
local untilMS = tonumber(redis.call('HGET', KEYS[5], 'until') or '0')
if untilMS > tonumber(ARGV[3]) then
  return untilMS
end
if redis.call('HGET', KEYS[1], 'password_version') ~= ARGV[2] then
  return -1
end
redis.call('HDEL', KEYS[5], 'fails')
redis.call('HSET', KEYS[2], unpack(ARGV, 5))
redis.call('SET', KEYS[4], ARGV[1], 'PXAT', ARGV[4])
redis.call('PEXPIREAT', KEYS[2], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
return 0
