-- Ends the erasing of a removed webhook that has no deliveries any more, for the owner
-- of its partition.
-- KEYS[1] epoch                   KEYS[4] accounts with webhooks
-- KEYS[2] webhooks to erase       KEYS[5] all deliveries
-- KEYS[3] webhooks of its account KEYS[6..] its other keys
-- ARGV[1] epoch of the owner      ARGV[2] webhook      ARGV[3] account
-- Returns 1; 0 if there are deliveries; -1 if another epoch holds the partition.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
if call('EXISTS', KEYS[5]) == 1 then
  return 0
end
for k = 6, #KEYS do
  call('DEL', KEYS[k])
end
call('HDEL', KEYS[2], ARGV[2])
if call('EXISTS', KEYS[3]) == 0 then
  call('SREM', KEYS[4], ARGV[3])
end
return 1
