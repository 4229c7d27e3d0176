-- Part of the scripts that end sessions, see sessions.go. Their KEYS end with two for each session
-- that they may end: its record and its refresh locator. ARGV ends with the id and the locator of each.

-- readSessions returns the places of these sessions by their ids. keys and args are the numbers of the
-- keys and arguments before them.
local function readSessions(keys, args)
  local given = {}
  for i = 0, (#KEYS - keys) / 2 - 1 do
    given[ARGV[args + 1 + 2 * i]] = {record = KEYS[keys + 1 + 2 * i], refresh = KEYS[keys + 2 + 2 * i],
      locator = ARGV[args + 2 + 2 * i]}
  end
  return given
end

-- removeSession removes a session: its record, its refresh locator and its place among those of its
-- account. given is its place. Returns whether the session had not expired.
local function removeSession(given, sessions, id)
  local locator = redis.call('HGET', given.record, 'locator')
  redis.call('DEL', given.record)
  redis.call('ZREM', sessions, id)
  if locator ~= given.locator then
    return false
  end
  redis.call('DEL', given.refresh)
  return true
end

