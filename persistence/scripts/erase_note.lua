-- Stores the progress of the erasing of an account, for its partition's owner.
-- KEYS[1] epoch                     ARGV[1] epoch of the owner
-- KEYS[2] erasings, by account      ARGV[2] account
-- ARGV[3] former state, "" without one
-- ARGV[4] new state, "" to remove it
-- Returns 1, or 0 if another epoch holds the partition. Changes nothing if the state is
-- not ARGV[3], since another call has continued already.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if (redis.call('HGET', KEYS[2], ARGV[2]) or '') ~= ARGV[3] then
  return 1
end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[2], ARGV[2])
else
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
end
return 1
