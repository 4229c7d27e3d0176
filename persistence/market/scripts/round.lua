-- Writes a round of ticks of the feeder's sources as one entry.
-- KEYS[1] epoch   ARGV[1] the feeder's epoch
-- KEYS[2] ticks   ARGV[2] packed ticks
-- Returns 1, or 0, with nothing stored, if another feeder took over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('XADD', KEYS[2], '*', 'r', ARGV[2])
return 1
