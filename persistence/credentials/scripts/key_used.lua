-- Records when API keys were last used, unless they were revoked or a later use is
-- recorded.
-- KEYS[i] key   ARGV[i] its last use, ms
-- Returns how many records changed.
local changed = 0
for i, key in ipairs(KEYS) do
  local used = redis.call('HGET', key, 'used')
  if used and tonumber(used) < tonumber(ARGV[i]) then
    redis.call('HSET', key, 'used', ARGV[i])
    changed = changed + 1
  end
end
return changed
