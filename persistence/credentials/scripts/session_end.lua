-- Ends one session of an account.
-- KEYS[1] session           ARGV[1] session id
-- KEYS[2] sessions of it    ARGV[2] announcement
-- KEYS[3] outbox            ARGV[3] now, ms
--                           ARGV[4] prefix of refresh locators
-- Returns 1, or 0 if it had ended before. The name made of the prefix carries the
-- same hash tag as KEYS.
-- removeSession is in shared/session_remove.lua.
if not removeSession(KEYS[1], KEYS[2], ARGV[1], ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[2])
return 1
