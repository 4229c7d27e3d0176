-- Notes when API keys were last used. A key that is gone stays so, and a later
-- use is not replaced by an earlier one.
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
