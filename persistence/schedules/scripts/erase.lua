-- Erases the schedules of an account.
--
-- KEYS[1] its schedules   KEYS[2] the results of their rounds   KEYS[3] due schedules
-- ARGV[1] account
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
  redis.call('ZREM', KEYS[3], ARGV[1] .. ' ' .. id)
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
