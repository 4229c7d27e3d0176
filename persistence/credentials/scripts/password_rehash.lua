-- Stores the same password under another hash.
-- KEYS[1] account   ARGV[1] the present hash
--                   ARGV[2] the next hash
-- Returns 1, or 0 if the account has another hash or does not exist.
if redis.call('HGET', KEYS[1], 'password') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'password', ARGV[2])
return 1
