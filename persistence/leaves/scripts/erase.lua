-- Removes the salt of an account and its months, and counts the account and its signals as erased, once.
-- KEYS[1] accounts   ARGV[1] account
-- KEYS[2] head, which ends with the number of erased accounts and the tallies of their signals
-- ARGV[2] the tallies before   ARGV[3] those with the account
-- KEYS[3] months
-- Returns 1, 0 without a salt, or -1 if the tallies are others.
local call = redis.call
local before, erased, gone = string.match(call('GET', KEYS[2]) or '', '^(%S+ %S+ %S+ %S+ %S+ )(%d+) (.*)$')
if before and gone ~= ARGV[2] then
  return -1
end
if call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local month = 1
while call('HDEL', KEYS[3], ARGV[1] .. ' ' .. string.format('%d', month)) == 1 do
  month = month + 1
end
if before then
  call('SET', KEYS[2], before .. string.format('%d ', erased + 1) .. ARGV[3])
end
return 1
