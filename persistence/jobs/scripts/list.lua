-- Lists jobs of an account, newest first.
--
-- KEYS[1] index of the jobs
-- ARGV[1] prefix of the keys of jobs   ARGV[2] offset   ARGV[3] limit
--
-- Returns the number of jobs in the index, and for each job of the page a list of
-- its id, state, time of start, request and outcome. A job that expired since the
-- index was pruned is left out.
--
-- The keys of the jobs are not among KEYS, because only the index names them. They are
-- in its slot.
local jobs = {redis.call('ZCARD', KEYS[1])}
local from = tonumber(ARGV[2])
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], from, from + tonumber(ARGV[3]) - 1)) do
  local r = redis.call('HMGET', ARGV[1] .. id, 's', 't', 'q', 'o')
  if r[1] then
    jobs[#jobs + 1] = {id, r[1], r[2] or '', r[3] or '', r[4] or ''}
  end
end
return jobs
