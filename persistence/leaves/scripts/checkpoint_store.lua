-- Appends entries to the root log and stores the checkpoint that ends with them, for the node that may sign: the
-- owner of the partition whose epoch it is.
-- KEYS[1] epoch         ARGV[1] epoch of the owner
-- KEYS[2] checkpoint    ARGV[2] checkpoint
-- KEYS[3] rollback      ARGV[3] the one that the first entry is of, or ""
-- KEYS[4] entries       ARGV[4] number of the first, 1 begins a new root log   ARGV[5] how many, then each
-- KEYS[5..] tiles       then OFFSET HASHES of each tile
-- Returns 1, 0 if another epoch holds the partition, or -1 if the root log has another size.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local first, count = tonumber(ARGV[4]), tonumber(ARGV[5])
if first == 1 then
  call('DEL', KEYS[4])
else
  local last = call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)
  if #last == 0 or last[1][1] ~= '0-' .. string.format('%d', first - 1) then
    return -1
  end
end
for i = 1, count do
  call('XADD', KEYS[4], '0-' .. string.format('%d', first + i - 1), 'h', ARGV[5 + i])
end
local a = 6 + count
for k = 5, #KEYS do
  call('SETRANGE', KEYS[k], ARGV[a], ARGV[a + 1])
  a = a + 2
end
if ARGV[3] ~= '' then
  call('SET', KEYS[3], ARGV[3])
end
call('SET', KEYS[2], ARGV[2])
return 1
