-- Removes the salt of an account, and counts the account as erased, once.
-- KEYS[1] accounts   ARGV[1] account
-- KEYS[2] head, which ends with the number of erased accounts
-- Returns 1, or 0 without a salt.
local call = redis.call
local before, erased = string.match(call('GET', KEYS[2]) or '', '^(.* )(%d+)$')
if call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if before then
  call('SET', KEYS[2], before .. string.format('%d', erased + 1))
end
return 1
