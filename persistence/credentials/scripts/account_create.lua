-- Creates an account and claims its email.
-- KEYS[1] account   ARGV[1] account id
-- KEYS[2] email     ARGV[2] creation, ms
-- KEYS[3] accounts  ARGV[3...] fields and values of the record
-- Returns 1 if it is created, or was by the same call before; 0 if the email is
-- another account's.
local holder = redis.call('GET', KEYS[2])
if holder then
  return holder == ARGV[1] and 1 or 0
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
return 1
