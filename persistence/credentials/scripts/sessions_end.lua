-- Ends sessions of an account in the order of their own ends.
-- KEYS[1] sessions of it    ARGV[1] now, ms
-- KEYS[2] outbox            ARGV[2] how many sessions this call ends at limit
-- KEYS[3...] record and     ARGV[3] how many sessions may remain
--   refresh locator of      ARGV[4] session that stays, or empty
--   each session            ARGV[5], [6] announcement before and after the session id
--                           ARGV[7] in place of each session id; empty: its own
--                           ARGV[8...] id and locator of each session
-- Returns how many more remain than may, and the ended sessions. It ends none after one
-- that is not among these.
-- readSessions and removeSession are in shared/session_remove.lua.
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3])
local limit = math.min(over, tonumber(ARGV[2]))
local answer = {over}
if limit <= 0 then
  return answer
end
local given = readSessions(2, 7)
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, limit)) do -- one more than end
  if not given[id] then
    break
  end
  if id ~= ARGV[4] and over - answer[1] < limit then
    answer[1] = answer[1] - 1
    if removeSession(given[id], KEYS[1], id) then
      redis.call('ZADD', KEYS[2], ARGV[1], ARGV[5] .. (ARGV[7] == '' and id or ARGV[7]) .. ARGV[6])
      answer[#answer + 1] = id
    end
  end
end
return answer
