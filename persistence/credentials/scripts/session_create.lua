-- Begins a session after a correct password, unless the email is locked by now. If the
-- account then has too many sessions, those whose own end is nearest are ended.
-- KEYS[1] account           ARGV[1] session id
-- KEYS[2] session           ARGV[2] version of the password that was right
-- KEYS[3] sessions of it    ARGV[3] now, ms
-- KEYS[4] refresh locator   ARGV[4] keep until, ms
-- KEYS[5] lock              ARGV[5] how many sessions an account may have
-- KEYS[6] outbox            ARGV[6] how many sessions one call ends at most
-- KEYS[7...] record and     ARGV[7], [8] announcement before and after the session id
--   refresh locator of      ARGV[9...] id and locator of each session that may end
--   each session that       ARGV[...] fields and values of the record
--   may end
-- Returns 0 and the ended sessions; -1 if the account does not exist or has another
-- password; -2 if more must end than one call ends; -3 if one must end that is not among
-- these; else until when the email is locked, in ms.
-- readSessions and removeSession are in shared/session_remove.lua.
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
  local given = readSessions(6, 8)
  local oldest = redis.call('ZRANGE', KEYS[3], 0, over - 1)
  for _, id in ipairs(oldest) do
    if not given[id] then
      return {-3}
    end
  end
  for _, id in ipairs(oldest) do
    if removeSession(given[id], KEYS[3], id) then
      redis.call('ZADD', KEYS[6], ARGV[3], ARGV[7] .. id .. ARGV[8])
      answer[#answer + 1] = id
    end
  end
end
redis.call('HDEL', KEYS[5], 'fails')
redis.call('HSET', KEYS[2], unpack(ARGV, 9 + #KEYS - 6))
redis.call('SET', KEYS[4], ARGV[1], 'PXAT', ARGV[4])
redis.call('PEXPIREAT', KEYS[2], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
return answer
