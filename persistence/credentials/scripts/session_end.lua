-- Ends one session of an account.
-- KEYS[1] sessions of it    ARGV[1] announcement
-- KEYS[2] outbox            ARGV[2] now, ms
-- KEYS[3] session           ARGV[3] session id
-- KEYS[4] refresh locator   ARGV[4] locator
-- Returns 1, or 0 if it had ended before.
-- readSessions and removeSession are in shared/session_remove.lua.
if not removeSession(readSessions(2, 2)[ARGV[3]], KEYS[1], ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return 1
