-- Stores the same password under another hash.
-- KEYS[1] account   ARGV[1] the hash until now
--                   ARGV[2] the hash from now on
-- Returns 1, or 0 if the hash has changed since or the account is gone.
if redis.call('HGET', KEYS[1], 'password') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'password', ARGV[2])
return 1
