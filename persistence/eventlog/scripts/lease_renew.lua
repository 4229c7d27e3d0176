-- Renews a lease that is still held.
-- KEYS[1] owner   ARGV[1] "NODE EPOCH"
--                 ARGV[2] lease, ms
-- Returns 1, or 0 if the lease has run out or another owner has it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
