-- Appends leaves to the Merkle log of a partition, for its owner.
-- KEYS[1] epoch           ARGV[1] epoch of the owner
-- KEYS[2] head            ARGV[2] the head before, "" for none   ARGV[3] the head after
-- KEYS[3] places          ARGV[4] number of leaves, then POSITION PLACE of each
-- KEYS[4] accounts        then the number of accounts, then ACCOUNT VALUE of each
-- KEYS[5..] tiles         then OFFSET HASHES of each tile
-- Returns 1, 0 if another epoch holds the partition, or -1 if the log has another head.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if (call('GET', KEYS[2]) or '') ~= ARGV[2] then
  return -1
end
local a = 4
for _ = 1, tonumber(ARGV[a]) do
  call('XADD', KEYS[3], ARGV[a + 1], 'h', ARGV[a + 2])
  a = a + 2
end
a = a + 1
for _ = 1, tonumber(ARGV[a]) do
  call('HSET', KEYS[4], ARGV[a + 1], ARGV[a + 2])
  a = a + 2
end
for k = 5, #KEYS do
  call('SETRANGE', KEYS[k], ARGV[a + 1], ARGV[a + 2])
  a = a + 2
end
call('SET', KEYS[2], ARGV[3])
return 1
