-- Sets an account's password and ends all its sessions except one.
-- KEYS[1] account           ARGV[1] hash
-- KEYS[2] sessions of it    ARGV[2] version that the password must have; 0: any
-- KEYS[3] outbox            ARGV[3] session that stays, or empty
--                           ARGV[4] now, ms
--                           ARGV[5] prefix of session records
--                           ARGV[6] prefix of refresh locators
--                           ARGV[7], [8] announcement before and after the session id
--                           ARGV[9] how many sessions one call ends at most
-- Returns the ended sessions; -1 if there is no such account, -2 if the password
-- has another version, -3 if there are more sessions than one call ends. The names
-- made of the prefixes carry the same hash tag as KEYS.
-- removeSession is in shared/session_remove.lua.
local version = redis.call('HGET', KEYS[1], 'password_version')
if not version then
  return -1
end
if ARGV[2] ~= '0' and ARGV[2] ~= version then
  return -2
end
if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[9]) then
  return -3
end
redis.call('HSET', KEYS[1], 'password', ARGV[1], 'password_version', tonumber(version) + 1)
local ended = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if id ~= ARGV[3] and removeSession(ARGV[5] .. id, KEYS[2], id, ARGV[6]) then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[7] .. id .. ARGV[8])
    ended[#ended + 1] = id
  end
end
return ended
