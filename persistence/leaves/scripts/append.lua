-- Appends leaves to the Merkle log of a partition, for its owner.
-- KEYS[1] epoch           ARGV[1] epoch of the owner
-- KEYS[2] head            ARGV[2] the head before, "" for none   ARGV[3] the head after
-- KEYS[3] places          ARGV[4] bytes of a full tile
--                         ARGV[5] number of leaves, then POSITION PLACE of each
-- KEYS[4] accounts        then the number of accounts, then ACCOUNT VALUE of each
-- KEYS[5] months          then their number, then FIELD VALUE of each
-- KEYS[6..] tiles         then OFFSET HASHES of each tile
-- Returns 1, 0 if another epoch holds the partition, or -1 if the log has another head.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if (call('GET', KEYS[2]) or '') ~= ARGV[2] then
  return -1
end
local a = 5
for _ = 1, tonumber(ARGV[a]) do
  call('XADD', KEYS[3], ARGV[a + 1], 'h', ARGV[a + 2])
  a = a + 2
end
a = a + 1
for _ = 1, tonumber(ARGV[a]) do
  call('HSET', KEYS[4], ARGV[a + 1], ARGV[a + 2])
  a = a + 2
end
a = a + 1
for _ = 1, tonumber(ARGV[a]) do
  call('HSET', KEYS[5], ARGV[a + 1], ARGV[a + 2])
  a = a + 2
end
for k = 6, #KEYS do
  local offset, hashes = tonumber(ARGV[a + 1]), ARGV[a + 2]
  if offset > 0 and offset + #hashes == tonumber(ARGV[4]) then
    -- SETRANGE reserves memory for a value to grow. A full tile does not.
    call('SET', KEYS[k], call('GETRANGE', KEYS[k], 0, offset - 1) .. hashes)
  else
    call('SETRANGE', KEYS[k], offset, hashes)
  end
  a = a + 2
end
call('SET', KEYS[2], ARGV[3])
return 1
