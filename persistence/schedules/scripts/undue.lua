-- Removes a member from the due schedules if it has no record.
--
-- KEYS[1] due schedules   KEYS[2] schedules of the account
-- ARGV[1] member   ARGV[2] schedule
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 1
