-- Takes tokens from a bucket that holds quota tokens and fills up within one period. The
-- bucket is stored as the time when it will be full, in microseconds since the start of
-- 2023.
-- KEYS[1] bucket   ARGV[1] period, us
--                  ARGV[2] quota
--                  ARGV[3] tokens to take at most
--                  ARGV[4] tokens to give back first
-- Returns how many were taken, and the time until the bucket is full, in ns.
local clock = redis.call('TIME')
local now = (clock[1] - 1672531200) * 1000000 + clock[2]
local period = tonumber(ARGV[1])
local each = period / tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or '0')
-- After a change to a shorter period the bucket fills up within the shorter one.
full = math.min(full - each * tonumber(ARGV[4]), now + period)
full = math.max(full, now)
-- The small number compensates rounding, so that all quota tokens can be taken.
local given = math.floor((period - (full - now)) / each + 0.000001)
given = math.max(0, math.min(given, tonumber(ARGV[3])))
full = full + each * given
if full > now then
  redis.call('SET', KEYS[1], string.format('%.17g', full), 'PX', string.format('%.0f', math.ceil((full - now) / 1000)))
else
  redis.call('DEL', KEYS[1])
end
return {given, math.ceil((full - now) * 1000)}
