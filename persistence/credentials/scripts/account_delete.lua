-- Deletes an account with its keys and sessions, and frees its email.
-- KEYS[1] account            ARGV[1] account id
-- KEYS[2] accounts           ARGV[2] announcement
-- KEYS[3] email              ARGV[3] now, ms
-- KEYS[4] lock               ARGV[4] how many sessions one call ends at most
-- KEYS[5] keys of it         ARGV[5] number of its keys
-- KEYS[6] sessions of it     ARGV[6...] digest of each key
-- KEYS[7] outbox             ARGV[...] id and locator of each session
-- KEYS[8] readers of it
-- KEYS[9] ids of its readers
-- KEYS[10...] record of each key
-- KEYS[...] record and refresh locator of each session
-- Returns 1; 0 if there is no such account; -1 if there are more sessions than one
-- call ends; -2 if it has a key or a session that is not among these; -3 if it has readers.
-- readSessions and removeSession are in shared/session_remove.lua.
if redis.call('ZCARD', KEYS[6]) > tonumber(ARGV[4]) then
  return -1
end
if redis.call('EXISTS', KEYS[9]) == 1 then
  return -3
end
local number = tonumber(ARGV[5])
local records = {}
for i = 1, number do
  records[ARGV[5 + i]] = KEYS[9 + i]
end
local keys = redis.call('HGETALL', KEYS[5])
for i = 1, #keys, 2 do
  if string.sub(keys[i], 1, 3) == 'id:' and not records[keys[i + 1]] then
    return -2
  end
end
local given = readSessions(9 + number, 5 + number)
local sessions = redis.call('ZRANGE', KEYS[6], 0, -1)
for _, id in ipairs(sessions) do
  if not given[id] then
    return -2
  end
end
if redis.call('DEL', KEYS[1]) == 0 then
  return 0
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[3], KEYS[4])
for i = 1, #keys, 2 do
  if string.sub(keys[i], 1, 3) == 'id:' then
    redis.call('DEL', records[keys[i + 1]])
  end
end
for _, id in ipairs(sessions) do
  removeSession(given[id], KEYS[6], id)
end
redis.call('DEL', KEYS[5], KEYS[8])
redis.call('ZADD', KEYS[7], ARGV[3], ARGV[2])
return 1
