#!/bin/bash
# slurm.sh — a Slurm of one machine, private to a folder, for tests: `slurm.sh up FOLDER PORT`,
# `slurm.sh down FOLDER`. No service, nothing in /etc; listens on 127.0.0.1.
set -euo pipefail
D=$2
if [ "$1" = down ]; then
  for f in "$D"/run/slurmd.pid "$D"/run/slurmctld.pid "$D"/run/munged.pid; do
    if [ -f "$f" ]; then kill "$(cat "$f")" 2>/dev/null || true; fi
  done
  exit 0
fi
PORT=$3
H=$(hostname -s)
mkdir -p "$D"/{state,spool,log,run}
chmod 755 "$D" "$D"/run
(umask 077; head -c 128 /dev/urandom >"$D/munge.key")
munged --force --key-file="$D/munge.key" --socket="$D/run/munge.sock" \
  --pid-file="$D/run/munged.pid" --log-file="$D/log/munged.log" --seed-file="$D/munge.seed"
cat >"$D/slurm.conf" <<CONF
ClusterName=simtest
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$PORT
CommunicationParameters=NoAddrCache,NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock,cred_expire=5
CryptoType=crypto/munge
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmdPidFile=$D/run/slurmd.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=100000,bf_interval=1,batch_sched_delay=0
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=2
NodeName=sim1 NodeHostname=$H NodeAddr=127.0.0.1 Port=$((PORT + 1)) CPUs=4 RealMemory=2000
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$D/slurm.conf"
slurmctld -f "$SLURM_CONF" -c
slurmd -f "$SLURM_CONF" -N sim1
for _ in $(seq 150); do
  if [ "$(sinfo -h -t idle -o %D 2>/dev/null | head -1)" = 1 ]; then exit 0; fi
  sleep 0.2
done
tail -n 5 "$D"/log/*.log >&2
exit 1
