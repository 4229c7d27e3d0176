-- Appends a block of entries to the compact form of a partition's signal log, for its owner.
-- KEYS[1] epoch     ARGV[1] epoch of the owner
-- KEYS[2] blocks    ARGV[2] position after which the block begins, "0-0" for the first
--                   ARGV[3] position of its last entry
--                   ARGV[4] its part for lists   ARGV[5] its part for the fit of weather slopes
--                   ARGV[6] how many entries the log had ever got up to there
-- Returns 1, 0 if another epoch holds the partition, or -1 if the last block ends elsewhere.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local last = call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if (last and last[1] or '0-0') ~= ARGV[2] then
  return -1
end
call('XADD', KEYS[2], ARGV[3], 'h', ARGV[4], 'm', ARGV[5], 'n', ARGV[6])
return 1
