-- Begins a session after a correct password, unless the email is locked by now. If the
-- account then has too many sessions, those whose own end is nearest are ended.
-- KEYS[1] account           ARGV[1] session id
-- KEYS[2] session           ARGV[2] version of the password that was right
-- KEYS[3] sessions of it    ARGV[3] now, ms
-- KEYS[4] refresh locator   ARGV[4] keep until, ms
-- KEYS[5] lock              ARGV[5] how many sessions an account may have
-- KEYS[6] outbox            ARGV[6] how many sessions one call ends at most
--                           ARGV[7] prefix of session records
--                           ARGV[8] prefix of refresh locators
--                           ARGV[9], [10] announcement before and after the session id
--                           ARGV[11...] fields and values of the record
-- Returns 0 and the ended sessions; -1 if the account does not exist or has another
-- password; -2 if more must end than one call ends; else until when the email is
-- locked, in ms. The names made of the prefixes carry the same hash tag as KEYS.
-- removeSession is in shared/session_remove.lua.
local untilMS = tonumber(redis.call('HGET', KEYS[5], 'until') or '0')
if untilMS > tonumber(ARGV[3]) then
  return {untilMS}
end
if redis.call('HGET', KEYS[1], 'password_version') ~= ARGV[2] then
  return {-1}
end
-- The call may be repeated because its answer was lost.
local own = redis.call('ZSCORE', KEYS[3], ARGV[1]) and 0 or 1
local over = redis.call('ZCARD', KEYS[3]) + own - tonumber(ARGV[5])
if over > tonumber(ARGV[6]) then
  return {-2}
end
local answer = {0}
if over > 0 then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, over - 1)) do
    if removeSession(ARGV[7] .. id, KEYS[3], id, ARGV[8]) then
      redis.call('ZADD', KEYS[6], ARGV[3], ARGV[9] .. id .. ARGV[10])
      answer[#answer + 1] = id
    end
  end
end
redis.call('HDEL', KEYS[5], 'fails')
redis.call('HSET', KEYS[2], unpack(ARGV, 11))
redis.call('SET', KEYS[4], ARGV[1], 'PXAT', ARGV[4])
redis.call('PEXPIREAT', KEYS[2], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
return answer
