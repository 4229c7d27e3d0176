-- Sets an account's password and ends all its sessions except one.
-- KEYS[1] account           ARGV[1] hash
-- KEYS[2] sessions of it    ARGV[2] version that the password must have; 0: any
-- KEYS[3] outbox            ARGV[3] session that stays, or empty
-- KEYS[4...] record and     ARGV[4] now, ms
--   refresh locator of      ARGV[5], [6] announcement before and after the session id
--   each session            ARGV[7] how many sessions one call ends at most
--                           ARGV[8...] id and locator of each session
-- Returns the ended sessions; -1 if there is no such account, -2 if the password
-- has another version, -3 if there are more sessions than one call ends, -4 if there is
-- one that is not among these.
-- readSessions and removeSession are in shared/session_remove.lua.
local version = redis.call('HGET', KEYS[1], 'password_version')
if not version then
  return -1
end
if ARGV[2] ~= '0' and ARGV[2] ~= version then
  return -2
end
if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[7]) then
  return -3
end
local given = readSessions(3, 7)
local sessions = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, id in ipairs(sessions) do
  if not given[id] then
    return -4
  end
end
redis.call('HSET', KEYS[1], 'password', ARGV[1], 'password_version', tonumber(version) + 1)
local ended = {}
for _, id in ipairs(sessions) do
  if id ~= ARGV[3] and removeSession(given[id], KEYS[2], id) then
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[5] .. id .. ARGV[6])
    ended[#ended + 1] = id
  end
end
return ended
