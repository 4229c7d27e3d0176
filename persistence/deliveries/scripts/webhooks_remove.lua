-- Removes all webhooks of a deleted account, and records that their deliveries are to be
-- erased.
-- KEYS[1] webhooks of the account   KEYS[4] webhooks to erase
-- KEYS[2] their health              KEYS[5] webhooks due
-- KEYS[3] counts                    KEYS[6] accounts with webhooks
-- ARGV[1] account
-- Returns how many there were.
local call = redis.call
local found = call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  local webhook, record = found[i], found[i + 1]
  call('HSET', KEYS[4], webhook, ARGV[1])
  call('ZREM', KEYS[5], ARGV[1] .. ' ' .. webhook)
  local start = string.match(record, '^%d+%-%d+ ()') or 1
  local disabled = (string.byte(record, start + 1) or 0) % 2 == 1
  call('HINCRBY', KEYS[3], disabled and 'disabled' or 'enabled', -1)
end
call('DEL', KEYS[1], KEYS[2])
call('SREM', KEYS[6], ARGV[1])
return #found / 2
