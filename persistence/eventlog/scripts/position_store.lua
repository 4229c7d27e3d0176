-- Stores the position of a partition's owner in its event log.
-- KEYS[1] epoch       ARGV[1] epoch of the owner
-- KEYS[2] position    ARGV[2] position, "MS-SEQ"
-- KEYS[3] event log
-- Returns 1, 0 if another epoch holds the partition, or -1 if the log ends before the
-- position: it has then lost its newest entries, and the next ones must not be skipped.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local info = redis.pcall('XINFO', 'STREAM', KEYS[3])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then
    local ms, seq = parts(ARGV[2])
    local lastMS, lastSeq = parts(info[i + 1])
    if ms > lastMS or ms == lastMS and seq > lastSeq then
      return -1
    end
  end
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
