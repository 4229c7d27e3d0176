-- Ends all sessions of an account.
-- KEYS[1] sessions of it    ARGV[1] announcement
-- KEYS[2] outbox            ARGV[2] now, ms
--                           ARGV[3] prefix of session records
--                           ARGV[4] prefix of refresh locators
-- Returns how many there were. The names made of the prefixes carry the same hash
-- tag as KEYS.
local ids = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, id in ipairs(ids) do
  local locator = redis.call('HGET', ARGV[3] .. id, 'locator')
  redis.call('DEL', ARGV[3] .. id)
  if locator then
    redis.call('DEL', ARGV[4] .. locator)
  end
end
if #ids > 0 then
  redis.call('DEL', KEYS[1])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
end
return #ids
