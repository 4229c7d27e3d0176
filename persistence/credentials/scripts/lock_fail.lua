-- Counts a failed login, and locks the email after too many.
-- KEYS[1] lock   ARGV[1] now, ms
--                ARGV[2] failures that lock
--                ARGV[3] time within which they count, ms
--                ARGV[4] duration of the first lock, ms
--                ARGV[5] time within which earlier locks lengthen it, ms
-- Returns until when the email is locked, in ms, or 0; and 1 if this failure has
-- locked it, else 0. While the email is locked nothing is counted.
local now = tonumber(ARGV[1])
local function since(list, after)
  local kept = {}
  for t in string.gmatch(list or '', '%d+') do
    if tonumber(t) > after then
      kept[#kept + 1] = t
    end
  end
  return kept
end
local fails, locks, untilMS = unpack(redis.call('HMGET', KEYS[1], 'fails', 'locks', 'until'))
if untilMS and tonumber(untilMS) > now then
  return {tonumber(untilMS), 0}
end
fails = since(fails, now - tonumber(ARGV[3]))
locks = since(locks, now - tonumber(ARGV[5]))
fails[#fails + 1] = ARGV[1]
if #fails < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'v', 1, 'fails', table.concat(fails, ','))
  local keep = now + tonumber(ARGV[3])
  if #locks > 0 then
    keep = math.max(keep, tonumber(locks[#locks]) + tonumber(ARGV[5]))
  end
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', keep))
  return {0, 0}
end
local duration = tonumber(ARGV[4]) * math.min(4, 2 ^ #locks)
locks[#locks + 1] = ARGV[1]
untilMS = now + duration
redis.call('HSET', KEYS[1], 'v', 1, 'fails', '', 'locks', table.concat(locks, ','),
  'until', string.format('%.0f', untilMS))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(untilMS, now + tonumber(ARGV[5]))))
return {untilMS, 1}
