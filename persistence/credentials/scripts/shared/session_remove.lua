-- Part of the scripts that end sessions, see sessions.go. Removes a session: its record, its
-- refresh locator and its place among those of its account. locators is the prefix of
-- refresh locators. Returns whether the session had not expired.
local function removeSession(record, sessions, id, locators)
  local locator = redis.call('HGET', record, 'locator')
  redis.call('DEL', record)
  redis.call('ZREM', sessions, id)
  if not locator then
    return false
  end
  redis.call('DEL', locators .. locator)
  return true
end

