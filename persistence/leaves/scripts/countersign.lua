-- Stores a checkpoint that a witness has signed, unless a newer one of it is stored.
-- KEYS[1] countersigned   ARGV[1] witness
--                         ARGV[2] size of the checkpoint, its second line
--                         ARGV[3] checkpoint
-- Returns 1, or 0 if a newer one of the same service is stored.
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored then
  local origin, size = string.match(stored, '^([^\n]*)\n(%d+)\n')
  if origin == string.match(ARGV[3], '^[^\n]*') and tonumber(size) > tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
