-- Renews leases that are still held.
-- KEYS[i] owner   ARGV[1] lease, ms
--                 ARGV[i+1] "NODE EPOCH" of KEYS[i]
-- Returns for each key 1, or 0 if the lease has run out or another owner has it.
local held = {}
for i, owner in ipairs(KEYS) do
  held[i] = 0
  if redis.call('GET', owner) == ARGV[i + 1] then
    held[i] = redis.call('PEXPIRE', owner, ARGV[1])
  end
end
return held
