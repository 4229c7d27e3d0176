-- Creates API keys of an account, all of them or none, and claims their names within it.
-- KEYS[1] account                    ARGV[1] how many keys of their kind it may have
-- KEYS[2] keys of their kind         ARGV[2] creation of readers, ms; empty for other keys
-- KEYS[3] keys of the other kind     ARGV[3] number of the next arguments
-- KEYS[4] ids of readers             ARGV[4...] fields and values that all records share
-- KEYS[5...] record of each key      ARGV[...] id, digest, name and prefix of each key
-- Returns 1 if they are created, or were by the same call before; 0 if a name is another
-- key's; -1 if there is no such account; -2 if it would have more than that many keys.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
local last = 3 + tonumber(ARGV[3])
local keys = {}
for i = 5, #KEYS do
  local at = last + 4 * (i - 5)
  keys[#keys + 1] = {record = KEYS[i], id = ARGV[at + 1], digest = ARGV[at + 2], name = ARGV[at + 3], prefix = ARGV[at + 4]}
end
local claimed = 0
for _, key in ipairs(keys) do
  local holder = redis.call('HGET', KEYS[2], 'name:' .. key.name) or redis.call('HGET', KEYS[3], 'name:' .. key.name)
  if holder and holder ~= key.id then
    return 0
  end
  claimed = claimed + (holder and 1 or 0)
end
if claimed == #keys then
  return 1
end
if redis.call('HLEN', KEYS[2]) / 2 + #keys > tonumber(ARGV[1]) then
  return -2
end
for _, key in ipairs(keys) do
  redis.call('HSET', KEYS[2], 'name:' .. key.name, key.id, 'id:' .. key.id, key.digest)
  redis.call('HSET', key.record, 'id', key.id, 'name', key.name, 'prefix', key.prefix, unpack(ARGV, 4, last))
  if ARGV[2] ~= '' then
    redis.call('ZADD', KEYS[4], ARGV[2], key.id)
  end
end
return 1
