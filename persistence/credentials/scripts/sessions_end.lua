-- Ends sessions of an account in the order of their own ends.
-- KEYS[1] sessions of it    ARGV[1] now, ms
-- KEYS[2] outbox            ARGV[2] how many sessions this call ends at limit
--                           ARGV[3] how many sessions may remain
--                           ARGV[4] session that stays, or empty
--                           ARGV[5] prefix of session records
--                           ARGV[6] prefix of refresh locators
--                           ARGV[7], [8] announcement before and after the session id
--                           ARGV[9] in place of each session id; empty: its own
-- Returns how many more remain than may, and the ended sessions.
-- The names made of the prefixes carry the same hash tag as KEYS.
-- removeSession is in shared/session_remove.lua.
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3])
local limit = math.min(over, tonumber(ARGV[2]))
local answer = {over}
if limit <= 0 then
  return answer
end
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, limit)) do -- one more than end
  if id ~= ARGV[4] and over - answer[1] < limit then
    answer[1] = answer[1] - 1
    if removeSession(ARGV[5] .. id, KEYS[1], id, ARGV[6]) then
      redis.call('ZADD', KEYS[2], ARGV[1], ARGV[7] .. (ARGV[9] == '' and id or ARGV[9]) .. ARGV[8])
      answer[#answer + 1] = id
    end
  end
end
return answer
