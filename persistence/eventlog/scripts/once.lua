-- What both scripts of the log begin with: the locals, and what makes a batch take effect once. A
-- batch that was carried out before returns what it has returned then, and changes nothing. A batch
-- older than the last one is an error.
-- KEYS[1] batch key of the writer
-- ARGV[1] number of the batch, increasing from batch to batch of a writer
local call, byte, unpack, match, cut = redis.call, string.byte, unpack, string.match, string.sub
local keys, args = KEYS, ARGV

local last = call('GET', keys[1])
if last then
  local done = match(last, '^%d+')
  if done == args[1] then
    -- A write, so that a WAIT after it also waits for the first attempt.
    call('EXPIRE', keys[1], 600)
    return cut(last, #done + 2)
  end
  if tonumber(done) > tonumber(args[1]) then
    return redis.error_reply('OLDBATCH a later batch was carried out')
  end
end

