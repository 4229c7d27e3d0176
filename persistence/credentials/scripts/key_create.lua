-- Creates an API key and claims its name within the account.
-- KEYS[1] account        ARGV[1] key id
-- KEYS[2] keys of it     ARGV[2] digest of the secret
-- KEYS[3] key            ARGV[3] name
--                        ARGV[4] how many keys an account may have
--                        ARGV[5...] fields and values of the record
-- Returns 1 if it is created, or was by the same call before; 0 if the name is
-- another key's; -1 if there is no such account; -2 if it has that many keys.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
local holder = redis.call('HGET', KEYS[2], 'name:' .. ARGV[3])
if holder then
  return holder == ARGV[1] and 1 or 0
end
if redis.call('HLEN', KEYS[2]) >= 2 * tonumber(ARGV[4]) then
  return -2
end
redis.call('HSET', KEYS[2], 'name:' .. ARGV[3], ARGV[1], 'id:' .. ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], unpack(ARGV, 5))
return 1
